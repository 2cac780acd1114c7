//! Breaks inputs: bits, lengths, words, and pieces of one in another.

use crate::{Corpus, Rng};

/// What readers of lengths, counts and texts stumble over.
const BYTES: [u8; 12] = [0, 1, 0x20, 0x22, 0x2e, 0x3d, 0x7f, 0x80, 0xc0, 0xfe, 0xff, b'\n'];
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e400",
    "0.0000001",
];
/// An input that has grown beyond this is cut.
const LONGEST: usize = 64 * 1024;
/// Most inputs are close to a good one.
const MOST_CHANGES: usize = 6;

/// An endless row of inputs.
pub struct Mutator<'a> {
    corpus: Corpus<'a>,
    random: Rng,
    last: Vec<u8>,
}

impl<'a> Mutator<'a> {
    pub fn new(corpus: Corpus<'a>, seed: u64) -> Self {
        Mutator { corpus, random: Rng::new(seed), last: Vec::new() }
    }

    pub fn next_input(&mut self) -> Vec<u8> {
        // Now and then the last one is broken further.
        let mut input = match self.random.below(8) {
            0 if !self.last.is_empty() => std::mem::take(&mut self.last),
            _ => self.random.pick(self.corpus.inputs).unwrap_or_default().to_vec(),
        };
        for _ in 0..=self.random.below(MOST_CHANGES) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        self.last.clone_from(&input);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len());
        match self.random.below(11) {
            0 => self.overwrite(input, at, |random, old| old ^ (1 << random.below(8))),
            1 => self.overwrite(input, at, |random, _| random.byte()),
            2 => self.overwrite(input, at, |random, _| BYTES[random.below(BYTES.len())]),
            3 => self.overwrite(input, at, |random, old| {
                old.wrapping_add(if random.below(2) == 0 { 1 } else { 255 })
            }),
            4 => drop(input.drain(at..self.end(input.len(), at))),
            5 => input.truncate(at),
            6 => {
                // A piece twice, or many times.
                let piece = input[at.min(input.len())..self.end(input.len(), at)].to_vec();
                let times = if self.random.below(10) == 0 { 200 } else { 1 };
                let piece = piece.repeat(times.min(LONGEST / piece.len().max(1)));
                input.splice(at..at, piece);
            }
            7 => {
                let word = self.random.pick(self.corpus.words).unwrap_or_default();
                input.splice(at..at, word.bytes());
            }
            8 => self.replace_number(input, at),
            9 => {
                let other = self.random.pick(self.corpus.inputs).unwrap_or_default();
                let from = self.random.below(other.len());
                let until = self.end(other.len(), from);
                let upto = self.end(input.len(), at);
                input.splice(at..upto, other[from..until].iter().copied());
            }
            _ => {
                let noise: Vec<u8> = (0..=self.random.below(8)).map(|_| self.random.byte()).collect();
                input.splice(at..at, noise);
            }
        }
    }

    fn overwrite(&mut self, input: &mut [u8], at: usize, new: impl FnOnce(&mut Rng, u8) -> u8) {
        if let Some(byte) = input.get_mut(at) {
            *byte = new(&mut self.random, *byte);
        }
    }

    /// The next digits after that place become a number that does not fit.
    fn replace_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(begin) = input[at.min(input.len())..].iter().position(u8::is_ascii_digit) else { return };
        let begin = at + begin;
        let digits = input[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = NUMBERS[self.random.below(NUMBERS.len())];
        input.splice(begin..begin + digits, number.bytes());
    }

    /// Where a piece that begins there ends: mostly soon.
    fn end(&mut self, length: usize, at: usize) -> usize {
        let most = if self.random.below(4) == 0 { length } else { 16 };
        (at + 1 + self.random.below(most)).min(length)
    }
}
