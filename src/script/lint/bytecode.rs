//! Reads the engine's bytecode: instructions, constants, locals and lines of each function.
//!
//! The engine has already resolved names to locals, captures and globals; a parser of the text
//! would have to do that again. The bytes come from the engine in this program and are never run
//! from here.
//!
//! **Invariant:** total: invalid bytes give `None`, never an error.

use serde_json::Value;

/// Header of all bytecode: the signature, version 5.4, the sizes and two samples.
const HEAD_BYTES: usize = 4 + 1 + 1 + 6 + 3 + 8 + 8;
/// Version and format after the signature.
const VERSION: [u8; 2] = [0x54, 0];
/// Deepest nesting of functions that is read.
const DEPTH_MAX: u32 = 100;
/// Marker for a line too far from the previous one.
const FAR_LINE: i8 = i8::MIN;

/// A function.
#[derive(Debug, Default)]
pub(crate) struct Proto {
    /// Its first line; 0 for a file.
    pub(crate) line: u32,
    /// How many parameters it has.
    pub(crate) params: usize,
    /// Its instructions.
    pub(crate) code: Vec<Instruction>,
    /// Its constants; `None` for those that are not plain values.
    pub(crate) constants: Vec<Option<Value>>,
    /// Its captured variables.
    pub(crate) captures: Vec<Capture>,
    /// The functions defined in it.
    pub(crate) inner: Vec<Proto>,
    /// Its locals, ordered by the start of their scope.
    pub(crate) locals: Vec<Local>,
    /// The line of each instruction.
    pub(crate) lines: Vec<u32>,
}

/// A captured variable.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is a register of the enclosing function, rather than a capture of that function.
    pub(crate) is_register: bool,
    /// Which.
    pub(crate) index: usize,
}

/// A local variable.
#[derive(Debug)]
pub(crate) struct Local {
    /// Its name.
    pub(crate) name: String,
    /// The first instruction in its scope.
    pub(crate) from: usize,
    /// The first instruction after its scope.
    pub(crate) to: usize,
    /// Where it is.
    pub(crate) register: usize,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction(u32);

impl Instruction {
    /// Returns its opcode.
    pub(crate) fn op(self) -> u32 {
        self.0 & 0x7f
    }

    /// Returns its first operand.
    pub(crate) fn a(self) -> usize {
        (self.0 >> 7 & 0xff) as usize
    }

    /// Returns its second operand.
    pub(crate) fn b(self) -> usize {
        (self.0 >> 16 & 0xff) as usize
    }

    /// Returns its third operand.
    pub(crate) fn c(self) -> usize {
        (self.0 >> 24) as usize
    }

    /// Returns whether its last operand is a constant.
    pub(crate) fn k(self) -> bool {
        self.0 >> 15 & 1 == 1
    }

    /// Returns its large operand.
    pub(crate) fn bx(self) -> usize {
        (self.0 >> 15) as usize
    }

    /// Returns its large operand as the number it loads.
    pub(crate) fn number(self) -> i64 {
        self.bx() as i64 - i64::from(u16::MAX)
    }

    /// Returns its jump distance, relative to the next instruction.
    pub(crate) fn jump(self) -> i64 {
        i64::from(self.0 >> 7) - i64::from((1_u32 << 24) - 1)
    }
}

/// Reads the compiled code of a file.
pub(crate) fn read(bytes: &[u8]) -> Option<Proto> {
    if bytes.get(..4)? != b"\x1bLua" || bytes.get(4..6)? != VERSION {
        return None;
    }
    // One more byte is the number of variables captured by the main function.
    let mut reader = Reader { rest: bytes.get(HEAD_BYTES + 1..)? };
    reader.proto(0)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|it| it[0])
    }

    /// Seven bits per byte, most significant first; the last byte has its highest bit set.
    fn size(&mut self) -> Option<usize> {
        let mut size: usize = 0;
        loop {
            let byte = self.byte()?;
            size = size.checked_mul(128)? | usize::from(byte & 0x7f);
            if byte & 0x80 != 0 {
                return Some(size);
            }
        }
    }

    fn line(&mut self) -> Option<u32> {
        self.size().and_then(|it| it.try_into().ok())
    }

    fn text(&mut self) -> Option<Option<String>> {
        let Some(len) = self.size()?.checked_sub(1) else { return Some(None) };
        Some(Some(String::from_utf8_lossy(self.take(len)?).into_owned()))
    }

    /// Reads a list; every item has at least one byte.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.size()?;
        if count > self.rest.len() {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn proto(&mut self, depth: u32) -> Option<Proto> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.text()?;
        let line = self.line()?;
        self.line()?;
        let params = usize::from(self.byte()?);
        self.take(2)?;
        let code = self.list(|reader| {
            let bytes = reader.take(4)?.try_into().ok()?;
            Some(Instruction(u32::from_ne_bytes(bytes)))
        })?;
        let constants = self.list(Self::constant)?;
        let mut captures = self.list(|reader| {
            let (is_register, index) = (reader.byte()? != 0, usize::from(reader.byte()?));
            reader.byte()?;
            Some(Capture { name: String::new(), is_register, index })
        })?;
        let inner = self.list(|reader| reader.proto(depth + 1))?;
        let steps = self.list(|reader| reader.byte().map(|it| it as i8))?;
        let far = self.list(|reader| Some((reader.size()?, reader.line()?)))?;
        let locals = self.list(|reader| {
            let name = reader.text()?.unwrap_or_default();
            Some((name, reader.size()?, reader.size()?))
        })?;
        let names = self.list(Self::text)?;
        for (capture, name) in captures.iter_mut().zip(names) {
            capture.name = name.unwrap_or_default();
        }
        let lines = lines(line, &steps, &far);
        let locals = placed(locals);
        Some(Proto { line, params, code, constants, captures, inner, locals, lines })
    }

    fn constant(&mut self) -> Option<Option<Value>> {
        let tag = self.byte()?;
        Some(match tag {
            0x00 => None,
            0x01 | 0x11 => Some(Value::Bool(tag == 0x11)),
            0x03 => Some(Value::from(i64::from_ne_bytes(self.take(8)?.try_into().ok()?))),
            0x13 => {
                let number = f64::from_ne_bytes(self.take(8)?.try_into().ok()?);
                serde_json::Number::from_f64(number).map(Value::Number)
            }
            0x04 | 0x14 => self.text()?.map(Value::String),
            _ => return None,
        })
    }
}

/// Returns the line of each instruction, decoded from the differences.
fn lines(first: u32, steps: &[i8], far: &[(usize, u32)]) -> Vec<u32> {
    let mut line = first;
    let next = |(at, step): (usize, &i8)| {
        line = match *step {
            FAR_LINE => far.iter().find(|it| it.0 == at).map_or(line, |it| it.1),
            step => line.saturating_add_signed(step.into()),
        };
        line
    };
    steps.iter().enumerate().map(next).collect()
}

/// Assigns registers to locals: each gets the first free one when its scope starts.
fn placed(spans: Vec<(String, usize, usize)>) -> Vec<Local> {
    let mut open: Vec<usize> = Vec::new();
    let place = |(name, from, to): (String, usize, usize)| {
        open.retain(|end| *end > from);
        open.push(to);
        Local { name, from, to, register: open.len() - 1 }
    };
    spans.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use mlua::Lua;

    use super::*;

    fn compiled(text: &str) -> Proto {
        let lua = Lua::new();
        let function = lua.load(text).into_function().unwrap();
        read(&function.dump(false)).unwrap()
    }

    #[test]
    fn lines_names_and_locals_are_those_of_the_text() {
        let proto = compiled(
            "local a, b = 1, 2\ndo local c = a end\n\nlocal d = b\n\
             return function(x, y)\n  return x .. a, missing\nend\n",
        );
        let registers: Vec<usize> = proto.locals.iter().map(|it| it.register).collect();
        assert_eq!(registers, [0, 1, 2, 2]);
        let inner = &proto.inner[0];
        assert_eq!((inner.line, inner.params), (5, 2));
        let names: Vec<&str> = inner.captures.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "_ENV"]);
        assert!(inner.constants.contains(&Some("missing".into())));
        assert!(inner.lines.iter().all(|it| [6, 7].contains(it)), "{:?}", inner.lines);
        let far = compiled(&format!("return function()\n{} return x end", "\n".repeat(700)));
        assert!(far.inner[0].lines.contains(&702), "{:?}", far.inner[0].lines);
    }

    #[test]
    fn bytes_that_are_something_else_give_nothing() {
        let lua = Lua::new();
        let whole = lua.load("return function(a) return a.b end").into_function().unwrap();
        let bytes = whole.dump(false);
        for end in 0..bytes.len() {
            read(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            for byte in [0, 0x7f, 0x80, 0xff] {
                let mut other = bytes.clone();
                other[at] = byte;
                read(&other);
            }
        }
        assert!(read(b"").is_none() && read(b"\x1bLua").is_none());
    }
}
