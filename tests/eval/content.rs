//! Invented content of the generated documents. The same seed yields the same content in every version of the project.

/// Languages of the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    English,
    German,
    French,
}

/// A date of 2026 or 2027.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) year: u64,
    pub(super) month: u64,
    pub(super) day: u64,
}

/// Notation of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// `17 March 2026`, `17.03.2026`, `17/03/2026`.
    Plain,
    /// `March 17, 2026`, `17. März 2026`, `17 mars 2026`.
    Long,
    /// `2026-03-17` in English documents, otherwise as [`Notation::Plain`].
    Iso,
    /// `03/17/2026` in English documents, otherwise as [`Notation::Plain`].
    Slashed,
}

/// A person or company with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Party {
    pub(super) name: &'static str,
    pub(super) street: &'static str,
    pub(super) city: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: &'static str,
    pub(super) quantity: u64,
    pub(super) price_cents: u64,
}

/// The content of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// Four digits.
    pub(super) number: u64,
    pub(super) date: Day,
    /// One month after `date`.
    pub(super) due: Day,
    pub(super) items: Vec<Item>,
    pub(super) seller: Party,
    pub(super) buyer: Party,
    language: Language,
}

/// A linear congruential generator. The generators of the crate `rand` may change with its version.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    /// Returns a number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn choose<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

impl Content {
    pub(super) fn new(seed: u64, language: Language) -> Self {
        let mut numbers = Numbers(seed);
        let number = 1_000 + numbers.below(9_000);
        let date = Day { year: 2026, month: 1 + numbers.below(12), day: 1 + numbers.below(28) };
        let (sellers, buyers, goods) = names(language);
        let (seller, buyer) = (numbers.choose(&sellers), numbers.choose(&buyers));
        let (count, first) = (2 + numbers.below(2), numbers.below(goods.len() as u64));
        let items = (0..count).map(|at| Item {
            name: goods[(first + at) as usize % goods.len()],
            quantity: 1 + numbers.below(12),
            price_cents: 150 + 5 * numbers.below(4_000),
        });
        Self { number, date, due: date.next_month(), items: items.collect(), seller, buyer, language }
    }

    pub(super) fn subtotal(&self) -> u64 {
        self.items.iter().map(|item| item.quantity * item.price_cents).sum()
    }

    /// Returns the tax rate in percent.
    pub(super) fn tax_rate(&self) -> u64 {
        if self.language == Language::German { 19 } else { 20 }
    }

    pub(super) fn tax(&self) -> u64 {
        (self.subtotal() * self.tax_rate() + 50) / 100
    }

    pub(super) fn total(&self) -> u64 {
        self.subtotal() + self.tax()
    }

    pub(super) fn currency(&self) -> &'static str {
        if self.language == Language::English { "USD" } else { "EUR" }
    }
}

impl Day {
    fn next_month(self) -> Self {
        let month = self.month % 12 + 1;
        Self { year: self.year + u64::from(month == 1), month, ..self }
    }

    pub(super) fn iso(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl Language {
    /// Returns the date as documents of the language print it.
    pub(super) fn date(self, date: Day, notation: Notation) -> String {
        let Day { year, month, day } = date;
        let name = self.months()[month as usize - 1];
        match (self, notation) {
            (Self::English, Notation::Plain) => format!("{day} {name} {year}"),
            (Self::English, Notation::Long) => format!("{name} {day}, {year}"),
            (Self::English, Notation::Iso) => date.iso(),
            (Self::English, Notation::Slashed) => format!("{month:02}/{day:02}/{year}"),
            (Self::German, Notation::Long) => format!("{day}. {name} {year}"),
            (Self::German, _) => format!("{day:02}.{month:02}.{year}"),
            (Self::French, Notation::Long) => format!("{day} {name} {year}"),
            (Self::French, _) => format!("{day:02}/{month:02}/{year}"),
        }
    }

    /// Returns an amount with two decimals and thousands separators.
    pub(super) fn amount(self, cents: u64) -> String {
        let (thousands, decimal) = match self {
            Self::English => (",", '.'),
            Self::German => (".", ','),
            Self::French => (" ", ','),
        };
        let (whole, cents) = (cents / 100, cents % 100);
        let whole = match whole / 1_000 {
            0 => whole.to_string(),
            above => format!("{above}{thousands}{:03}", whole % 1_000),
        };
        format!("{whole}{decimal}{cents:02}")
    }

    fn months(self) -> [&'static str; 12] {
        match self {
            Self::English => [
                "January",
                "February",
                "March",
                "April",
                "May",
                "June",
                "July",
                "August",
                "September",
                "October",
                "November",
                "December",
            ],
            Self::German => [
                "Januar",
                "Februar",
                "März",
                "April",
                "Mai",
                "Juni",
                "Juli",
                "August",
                "September",
                "Oktober",
                "November",
                "Dezember",
            ],
            Self::French => [
                "janvier",
                "février",
                "mars",
                "avril",
                "mai",
                "juin",
                "juillet",
                "août",
                "septembre",
                "octobre",
                "novembre",
                "décembre",
            ],
        }
    }
}

/// Returns sellers, buyers and goods of a language. All names are fictitious.
fn names(language: Language) -> ([Party; 3], [Party; 3], [&'static str; 6]) {
    let party = |name, street, city| Party { name, street, city };
    match language {
        Language::English => (
            [
                party("Harbour Office Supplies", "Quay Road 9", "Bristol BS1 4XY"),
                party("Elm Court Trading", "Market Street 12", "Leeds LS1 5QQ"),
                party("Northgate Services", "Mill Lane 3", "York YO1 7HH"),
            ],
            [
                party("Brightwater Hotel", "Station Road 44", "Bath BA1 1SU"),
                party("Okafor Consulting", "High Street 7", "Oxford OX1 4DB"),
                party("Penrose Dental Practice", "Park Avenue 21", "Exeter EX1 1GE"),
            ],
            ["Copy paper A4", "Toner black", "Archive boxes", "Desk lamp", "Notebooks", "Envelopes C5"],
        ),
        Language::German => (
            [
                party("Nordlicht Papier GmbH", "Speicherstrasse 14", "20457 Hamburg"),
                party("Stadtwerke Lindau", "Seeweg 5", "88131 Lindau"),
                party("Handelshaus Weber", "Bergstrasse 30", "01069 Dresden"),
            ],
            [
                party("Praxis Sommerfeld", "Gartenweg 8", "50667 Koeln"),
                party("Hotel Seeblick", "Uferstrasse 2", "78462 Konstanz"),
                party("Schreinerei Brandt", "Am Markt 17", "99084 Erfurt"),
            ],
            ["Kopierpapier A4", "Toner schwarz", "Archivboxen", "Schreibtischlampe", "Hefte", "Briefe C5"],
        ),
        Language::French => (
            [
                party("Papeterie du Port", "rue de la Marine 11", "13002 Marseille"),
                party("Services du Rhin", "avenue des Vosges 6", "67000 Strasbourg"),
                party("Maison Lefort", "chemin Vert 19", "69003 Lyon"),
            ],
            [
                party("Cabinet Morel", "rue Centrale 4", "31000 Toulouse"),
                party("Restaurant Le Phare", "quai Sud 25", "44000 Nantes"),
                party("Atelier Dubois", "rue Haute 38", "38000 Grenoble"),
            ],
            ["Papier A4", "Toner noir", "Boites archives", "Lampe", "Cahiers", "Enveloppes C5"],
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_amounts_are_printed_in_the_notation_of_the_language() {
        let day = Day { year: 2026, month: 12, day: 7 };
        let dates = |language: Language| {
            [Notation::Plain, Notation::Long, Notation::Iso, Notation::Slashed].map(|style| language.date(day, style))
        };
        assert_eq!(dates(Language::English), ["7 December 2026", "December 7, 2026", "2026-12-07", "12/07/2026"]);
        assert_eq!(dates(Language::German), ["07.12.2026", "7. Dezember 2026", "07.12.2026", "07.12.2026"]);
        assert_eq!(dates(Language::French), ["07/12/2026", "7 décembre 2026", "07/12/2026", "07/12/2026"]);
        assert_eq!(day.next_month().iso(), "2027-01-07");
        let amounts = [Language::English, Language::German, Language::French]
            .map(|language| [5, 99_905, 123_400].map(|cents| language.amount(cents)).join(" | "));
        assert_eq!(amounts, ["0.05 | 999.05 | 1,234.00", "0,05 | 999,05 | 1.234,00", "0,05 | 999,05 | 1 234,00"]);
    }

    #[test]
    fn the_sums_follow_from_the_items_and_a_seed_yields_the_same_content() {
        for seed in 0..200 {
            let content = Content::new(seed, Language::German);
            assert_eq!(content, Content::new(seed, Language::German));
            assert_eq!(content.total(), content.subtotal() + content.tax());
            assert!((1_000..10_000).contains(&content.number) && (2..=3).contains(&content.items.len()));
            assert!(content.total() < 100_000_000, "an amount has at most one thousands separator");
        }
    }
}
