//! Enums whose values have a name in the API and in stored values.

/// Declares an enum with the name of each value. Defines `ALL`, `as_str`, `from_name`, `names` and the serialization by name.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $value,)+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$value,)+];

            /// Returns the name in the API.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }

            /// None: this version does not define the name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == name)
            }

            /// Returns the names of all values, in their order.
            pub fn names() -> Vec<&'static str> {
                Self::ALL.iter().map(|value| value.as_str()).collect()
            }
        }
    };
}
