//! JSON that stands in a stream without any framing, over one line or several.

/// Lines of JSON, joined until the bracket that opened them is closed.
#[derive(Debug, Default)]
pub(super) struct BareJson {
    bytes: Vec<u8>,
    /// How many brackets are open.
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl BareJson {
    /// What was received so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a line; `true` when it closes the first bracket.
    pub(super) fn push(&mut self, line: &[u8]) -> bool {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        for byte in line {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' if !self.in_text => self.depth += 1,
                b'}' | b']' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.depth == 0
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
