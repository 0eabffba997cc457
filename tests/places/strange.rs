//! Strange input: handled, or refused with the reason; never a wrong offset.
