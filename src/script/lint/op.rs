//! Effects of the engine's instructions, by opcode: registers they set, and jump targets.

use std::collections::BTreeSet;

use crate::script::lint::bytecode::{Instruction, Proto};

/// Registers of a function.
pub(crate) const REGISTERS: usize = 257;

pub(crate) const MOVE: u32 = 0;
pub(crate) const LOADI: u32 = 1;
pub(crate) const LOADK: u32 = 3;
pub(crate) const LOADFALSE: u32 = 5;
pub(crate) const LOADTRUE: u32 = 7;
pub(crate) const LOADNIL: u32 = 8;
pub(crate) const GETUPVAL: u32 = 9;
pub(crate) const SETUPVAL: u32 = 10;
pub(crate) const GETTABUP: u32 = 11;
pub(crate) const GETFIELD: u32 = 14;
pub(crate) const SETTABUP: u32 = 15;
pub(crate) const SETTABLE: u32 = 16;
pub(crate) const SETI: u32 = 17;
pub(crate) const SETFIELD: u32 = 18;
pub(crate) const NEWTABLE: u32 = 19;
pub(crate) const SELF: u32 = 20;
pub(crate) const JMP: u32 = 56;
pub(crate) const EQK: u32 = 60;
pub(crate) const CALL: u32 = 68;
pub(crate) const TAILCALL: u32 = 69;
pub(crate) const RETURN: u32 = 70;
pub(crate) const RETURN1: u32 = 72;
pub(crate) const FORLOOP: u32 = 73;
pub(crate) const FORPREP: u32 = 74;
pub(crate) const TFORPREP: u32 = 75;
pub(crate) const TFORCALL: u32 = 76;
pub(crate) const TFORLOOP: u32 = 77;
pub(crate) const SETLIST: u32 = 78;
pub(crate) const CLOSURE: u32 = 79;
pub(crate) const VARARG: u32 = 80;
/// Comparisons, jumps, returns, and the metamethod fallbacks after an operator.
pub(crate) const SETS_NOTHING: [u32; 22] = [
    46, 47, 48, 54, 55, JMP, 57, 58, 59, EQK, 61, 62, 63, 64, 65, 66, RETURN, 71, RETURN1,
    TFORPREP, TFORLOOP, 82,
];

/// Returns the targets of jumps.
pub(crate) fn targets(proto: &Proto) -> BTreeSet<usize> {
    let jump = |(at, it): (usize, &Instruction)| {
        let next = i64::try_from(at).ok()? + 1;
        let far = i64::try_from(it.bx()).ok()?;
        let to = match it.op() {
            JMP => next + it.jump(),
            FORLOOP | TFORLOOP => next - far,
            FORPREP => next + far + 1,
            // To the call of the iterator, which precedes the loop instruction.
            TFORPREP => next + far,
            _ => return None,
        };
        usize::try_from(to).ok()
    };
    proto.code.iter().enumerate().filter_map(jump).collect()
}

/// Returns the registers that an instruction sets.
pub(crate) fn written(it: Instruction) -> std::ops::Range<usize> {
    let a = it.a();
    match it.op() {
        LOADNIL => a..a + it.b() + 1,
        SELF => a..a + 2,
        CALL | TAILCALL | VARARG => a..REGISTERS,
        TFORCALL => a + 4..REGISTERS,
        FORLOOP | FORPREP => a..a + 4,
        SETUPVAL | SETTABUP | SETFIELD | SETTABLE | SETI | SETLIST => 0..0,
        other if SETS_NOTHING.contains(&other) => 0..0,
        _ => a..a + 1,
    }
}
