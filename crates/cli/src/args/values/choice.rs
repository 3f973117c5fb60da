//! Values out of a fixed set of words, which help, completions and error messages list.

use std::error::Error;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A parser of `T` that accepts these words, each with its help text.
pub(crate) fn choice<T, const N: usize>(
    words: [(&'static str, &'static str); N],
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    let words = words.map(|(word, meaning)| PossibleValue::new(word).help(meaning));
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}
