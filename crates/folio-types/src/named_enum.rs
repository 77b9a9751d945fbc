//! Enums whose values have a name in the API and in stored values.

/// Declares an enum with the name of each value. Defines `ALL`, `as_str`, `from_name` and the serialization by name.
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
        }
    };
}
