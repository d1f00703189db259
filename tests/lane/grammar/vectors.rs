//! Worker arguments made from what a CLI itself says that it knows, in every spelling that a parser may take
//! for it; the same for the same seed.

/// A sequence of numbers (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// The sequence of this number.
    pub(crate) fn new(start: u64) -> Self {
        Self(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).expect("small")).expect("small")
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// An option as a CLI's own help or parser names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Known {
    /// Long spellings with their dashes.
    pub long: Vec<String>,
    /// The one-letter spelling.
    pub letter: Option<char>,
    /// Whether it takes values: none, one, maybe one, one or more.
    pub takes: Takes,
}

/// How many values an option takes, in the words of a help text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Takes {
    /// None.
    #[default]
    Nothing,
    /// `<value>`.
    One,
    /// `[value]`.
    Maybe,
    /// `<value...>` or `<VALUE>...`.
    Many,
}

impl Known {
    /// From a line of a help text: `-c, --config <key=value>`.
    pub(crate) fn parse(flags: &str) -> Option<Self> {
        let mut known = Self::default();
        for word in flags.split([' ', ',', '|']).filter(|word| !word.is_empty()) {
            if word.starts_with("--") {
                known.long.push(word.to_owned());
            } else if let Some(letter) = word.strip_prefix('-').filter(|rest| rest.len() == 1) {
                known.letter = letter.chars().next();
            }
        }
        known.takes = match (flags.contains('<'), flags.contains('[')) {
            (true, _) if flags.contains("...") => Takes::Many,
            (true, _) => Takes::One,
            (false, true) => Takes::Maybe,
            (false, false) => Takes::Nothing,
        };
        (!known.long.is_empty()).then_some(known)
    }
}

/// What vectors are made of.
#[derive(Debug)]
pub(crate) struct Source {
    /// What a worker begins with; weighted by repetition.
    pub heads: Vec<Vec<&'static str>>,
    /// Every option.
    pub options: Vec<Known>,
    /// Those that our grammar takes in some spelling, so that vectors with several of them are not all refused.
    pub liked: Vec<Known>,
    /// Subcommands.
    pub words: Vec<String>,
    /// Values, among them other conversations, directories, logins and hosts.
    pub values: Vec<String>,
    /// Prompts.
    pub prompts: Vec<String>,
}

impl Source {
    /// One vector.
    pub(crate) fn vector(&self, seed: &mut Seed) -> Vec<String> {
        let mut words: Vec<String> = seed
            .pick(&self.heads)
            .iter()
            .map(ToString::to_string)
            .collect();
        for _ in 0..seed.below(4) {
            let at = if seed.below(5) == 0 {
                seed.below(words.len() + 1)
            } else {
                words.len()
            };
            let more = self.piece(seed);
            words.splice(at..at, more);
        }
        match seed.below(6) {
            0 => {}
            1 => words.push(self.prompt(seed)),
            2 => words.insert(seed.below(words.len() + 1), self.prompt(seed)),
            _ => words.extend(["--".to_owned(), self.prompt(seed)]),
        }
        if seed.below(12) == 0 && !words.is_empty() {
            let again = words[seed.below(words.len())].clone();
            words.insert(seed.below(words.len() + 1), again);
        }
        words
    }

    fn prompt(&self, seed: &mut Seed) -> String {
        match seed.below(8) {
            0 => seed.pick(&self.words).clone(),
            1 => {
                let name = &seed.pick(&self.options).long[0];
                let value = seed.pick(&self.values);
                seed.pick(&[
                    format!("{name}={value}"),
                    format!("{name} {value}"),
                    name.clone(),
                ])
                .clone()
            }
            2 => seed.pick(&self.values).clone(),
            _ => seed.pick(&self.prompts).clone(),
        }
    }

    fn piece(&self, seed: &mut Seed) -> Vec<String> {
        match seed.below(14) {
            0 => vec![seed.pick(&self.words).clone()],
            1 => vec![seed.pick(&self.values).clone()],
            2 => vec!["--".to_owned()],
            3 | 4 => self.spelled(seed, &self.options),
            _ => self.spelled(seed, &self.liked),
        }
    }

    fn spelled(&self, seed: &mut Seed, among: &[Known]) -> Vec<String> {
        let option = seed.pick(among);
        let name = seed.pick(&option.long).clone();
        let value = seed.pick(&self.values).clone();
        let usual = match option.takes {
            Takes::Nothing => vec![name.clone()],
            Takes::Many => vec![name.clone(), value.clone(), seed.pick(&self.values).clone()],
            Takes::One | Takes::Maybe => vec![name.clone(), value.clone()],
        };
        match seed.below(12) {
            0 => vec![name],
            1 | 2 => vec![format!("{name}={value}")],
            3 => {
                // What some parsers take for the whole name.
                let cut = 3 + seed.below(name.len().saturating_sub(3).max(1));
                let mut spelling = usual;
                spelling[0].truncate(cut);
                spelling
            }
            4 => {
                let mut spelling = usual;
                spelling[0] = match seed.below(4) {
                    0 => spelling[0].to_uppercase(),
                    1 => spelling[0].replace("--", "-"),
                    2 => spelling[0].replacen("--", "--no-", 1),
                    _ => spelling[0].replace('-', "_").replacen("__", "--", 1),
                };
                spelling
            }
            5..=7 => match option.letter {
                None => usual,
                Some(letter) => {
                    let bundled: String = among
                        .iter()
                        .filter(|other| other.takes == Takes::Nothing)
                        .filter_map(|other| other.letter)
                        .filter(|_| seed.below(3) == 0)
                        .collect();
                    let letters = format!("-{bundled}{letter}");
                    match seed.below(4) {
                        0 => vec![letters],
                        1 => vec![format!("{letters}{value}")],
                        2 => vec![format!("{letters}={value}")],
                        _ => vec![letters, value],
                    }
                }
            },
            _ => usual,
        }
    }
}
