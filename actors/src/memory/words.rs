//! Words to index and words to look for, in any script.
//!
//! Scripts with spaces are left to the index's own tokeniser, which folds case and accents and takes
//! English endings off. Scripts without spaces (Chinese, Japanese, Thai …) and Korean, whose words carry
//! endings of many kinds, are indexed by each character and each pair of neighbours, and asked for by pairs.

/// Most words that are looked for; what comes after says little more.
pub const MOST_WORDS: usize = 24;
/// Longest word, in characters. Longer runs are cut: nobody asks for those.
const LONGEST: usize = 40;

/// Words that tell nothing.
const EMPTY_WORDS: &[&str] = &[
    // English
    "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "did", "do", "does", "doing", "for", "from", "get", "give", "got", "had", "has",
    "have", "he", "hello", "her", "hey", "hi", "him", "his", "how", "i", "if", "in", "into", "is",
    "it", "its", "just", "know", "let", "like", "may", "me", "might", "more", "must", "my", "no",
    "not", "of", "ok", "okay", "on", "one", "or", "our", "out", "please", "remember", "say",
    "shall", "she", "should", "show", "so", "some", "tell", "than", "thank", "thanks", "that",
    "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "up", "us",
    "was", "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will",
    "with", "would", "yes", "you", "your", "yours", // German
    "aber", "als", "auch", "auf", "aus", "bei", "bin", "bis", "bitte", "das", "dass", "dein",
    "deine", "dem", "den", "der", "des", "die", "dir", "du", "ein", "eine", "einem", "einen",
    "einer", "er", "es", "für", "habe", "haben", "hat", "ich", "ihr", "im", "ist", "ja", "kann",
    "kannst", "kein", "mein", "meine", "meinen", "meiner", "mich", "mir", "mit", "nach", "nein",
    "nicht", "noch", "nur", "oder", "sich", "sie", "sind", "und", "uns", "unser", "vom", "von",
    "wann", "war", "warum", "was", "wer", "wie", "wir", "wird", "wo", "zu", "zum", "zur", "über",
    // French
    "au", "aux", "avec", "ce", "ces", "dans", "de", "elle", "en", "est", "et", "il", "je", "la",
    "le", "les", "leur", "ma", "mais", "mes", "moi", "mon", "ne", "nous", "ou", "où", "par", "pas",
    "pour", "que", "quel", "quelle", "qui", "sa", "se", "ses", "son", "sont", "sur", "ta", "te",
    "tes", "toi", "ton", "tu", "un", "une", "vous", "à", // Spanish, Italian, Portuguese
    "al", "che", "chi", "como", "con", "cosa", "cuál", "cuándo", "da", "dei", "del", "della", "di",
    "do", "dos", "dónde", "el", "em", "es", "eu", "il", "las", "lo", "los", "mi", "mio", "na",
    "no", "non", "o", "os", "para", "per", "por", "qual", "quando", "qué", "quién", "si", "sono",
    "sou", "su", "são", "um", "uma", "una", "uno", "y", "yo", "é",
];

/// What the index is given for a text.
pub fn to_index(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for word in words(text) {
        for part in parts(word) {
            match part {
                Part::Spaced(part) => push(&mut out, part),
                Part::Run(run) => {
                    for one in singles(run) {
                        push(&mut out, one);
                    }
                    for pair in pairs(run) {
                        push(&mut out, pair);
                    }
                }
            }
        }
    }
    out
}

/// The words of a question, each once, in its order: those that tell something.
pub fn to_ask(text: &str) -> Vec<String> {
    let (mut found, mut grammar): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for word in words(text) {
        for part in parts(word) {
            match part {
                Part::Spaced(part) => add(&mut found, shortened(part).to_lowercase()),
                Part::Run(run) if run.chars().nth(1).is_none() => add(&mut found, run.to_owned()),
                Part::Run(run) => {
                    for pair in pairs(run) {
                        // Pairs of hiragana alone are endings and particles, as a rule.
                        let into =
                            if pair.chars().all(is_hiragana) { &mut grammar } else { &mut found };
                        add(into, pair.to_owned());
                    }
                }
            }
            if found.len() >= MOST_WORDS {
                return found;
            }
        }
    }
    if found.is_empty() { grammar } else { found }
}

/// `words` as one expression of the index: its words, quoted, so that nothing in them is syntax.
pub fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\""))
}

fn add(words: &mut Vec<String>, word: String) {
    let tells = word.chars().any(char::is_alphanumeric)
        && !(word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_alphabetic()))
        && !EMPTY_WORDS.contains(&word.as_str());
    if tells && words.len() < MOST_WORDS && !words.contains(&word) {
        words.push(word);
    }
}

fn push(out: &mut String, word: &str) {
    if !out.is_empty() {
        out.push(' ');
    }
    out.push_str(word);
}

/// What stands between white space, punctuation and controls. Marks stay with their letters.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let apart = |c: char| {
        (c.is_ascii() && !c.is_ascii_alphanumeric())
            || c.is_whitespace()
            || c.is_control()
            || matches!(c,
                '\u{a0}'..='\u{a9}' | '\u{ab}'..='\u{b1}' | '\u{b4}' | '\u{b6}'..='\u{b8}' | '\u{bb}'
                | '\u{bf}' | '\u{d7}' | '\u{f7}' | '\u{2000}'..='\u{206f}' | '\u{2190}'..='\u{2bff}'
                | '\u{3000}'..='\u{3004}' | '\u{3008}'..='\u{3020}' | '\u{3030}' | '\u{303d}'..='\u{303f}'
                | '\u{30fb}' | '\u{fe10}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}'
                | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}')
    };
    text.split(apart).filter(|word| !word.is_empty())
}

enum Part<'a> {
    /// Of a script with spaces.
    Spaced(&'a str),
    /// Of one without.
    Run(&'a str),
}

/// A word's stretches of one kind of script each.
fn parts(word: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let run = is_unspaced(rest.chars().next()?);
        let end = rest
            .char_indices()
            .find(|(_, c)| is_unspaced(*c) != run)
            .map_or(rest.len(), |(at, _)| at);
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(if run { Part::Run(part) } else { Part::Spaced(part) })
    })
}

fn shortened(word: &str) -> &str {
    word.char_indices().nth(LONGEST).map_or(word, |(end, _)| &word[..end])
}

fn singles(run: &str) -> impl Iterator<Item = &str> {
    run.char_indices().map(|(at, c)| &run[at..at + c.len_utf8()])
}

fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let second = run.char_indices().skip(1);
    run.char_indices().zip(second).map(|((from, _), (at, c))| &run[from..at + c.len_utf8()])
}

fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{309f}')
}

/// Scripts written without spaces, and Hangul.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{f00}'..='\u{fff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}'
        | '\u{1780}'..='\u{17ff}' | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{302f}'
        | '\u{3031}'..='\u{303c}' | '\u{3040}'..='\u{30fa}' | '\u{30fc}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}'
        | '\u{1b000}'..='\u{1b16f}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_question_is_its_telling_words_each_once() {
        assert_eq!(to_ask("What's the weather like in Paris, and in PARIS?"), ["weather", "paris"]);
        assert_eq!(
            to_ask("favourite_colour=teal; v2.0"),
            ["favourite", "colour", "teal", "v2", "0"]
        );
        assert_eq!(to_ask("wer bin ich? 🦀 …"), Vec::<String>::new());
        assert_eq!(to_ask("Zoë's Büro"), ["zoë", "büro"]);
    }

    #[test]
    fn a_script_without_spaces_is_asked_for_by_pairs_and_indexed_by_characters_too() {
        assert_eq!(to_ask("日本語"), ["日本", "本語"]);
        assert_eq!(to_ask("猫"), ["猫"]);
        assert_eq!(to_ask("Rust入門"), ["rust", "入門"]);
        // Of pairs of hiragana there is nothing to be learnt, unless there is nothing else.
        assert_eq!(to_ask("好きな色は"), ["好き", "な色", "色は"]);
        assert_eq!(to_ask("すし"), ["すし"]);
        assert_eq!(to_index("東京都"), "東 京 都 東京 京都");
        assert_eq!(to_index("I like 猫。"), "I like 猫");
    }

    #[test]
    fn nothing_in_a_word_is_syntax() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        for hostile in ["\" OR *", "NEAR(a b)", "words:x", "^x AND NOT y", "a* -b +c {d}"] {
            for word in to_ask(hostile) {
                assert!(word.chars().all(char::is_alphanumeric), "{hostile}: {word}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_bounded_number_of_words(text in any::<String>()) {
            let asked = to_ask(&text);
            prop_assert!(asked.len() <= MOST_WORDS);
            for word in &asked {
                prop_assert!(word.chars().any(char::is_alphanumeric));
                prop_assert!(!word.contains('"'));
            }
            to_index(&text);
        }
    }
}
