# SPDX-License-Identifier: Apache-2.0
"""Makes identifiers from names that users chose: legal in SystemVerilog and C++, unique, and never a keyword."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import count

#: IEEE 1800-2017, annex B
_VERILOG = """
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind
    bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos config
    const constraint context continue cover covergroup coverpoint cross deassign default defparam design disable
    dist do edge else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup
    endinterface endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask
    enum event eventually expect export extends extern final first_match for force foreach forever fork forkjoin
    function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies import
    incdir include initial inout input inside instance int integer interconnect interface intersect join join_any
    join_none large let liblist library local localparam logic longint macromodule matches medium modport module
    nand negedge nettype new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed
    parameter pmos posedge primitive priority program property protected pull0 pull1 pulldown pullup
    pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg
    reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually s_nexttime
    s_until s_until_with scalared sequence shortint shortreal showcancelled signed small soft solve specify
    specparam static string strong strong0 strong1 struct super supply0 supply1 sync_accept_on sync_reject_on
    table tagged task this throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior
    trireg type typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void
    wait wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
"""

#: ISO/IEC 14882:2017, 5.11, and the global names that hls4ml's headers declare
_CPP = """
    alignas alignof and_eq asm auto bitand bitor bool catch char char16_t char32_t compl const_cast constexpr decltype
    delete double dynamic_cast explicit false float friend goto inline long mutable namespace noexcept not_eq nullptr
    operator or_eq private public register reinterpret_cast short sizeof static_assert static_cast template
    thread_local throw true try typeid typename using volatile wchar_t xor_eq
    abs acos asin atan atan2 ceil cos cosh exp fabs floor fmod log log10 log2 main memcpy nnet pow rand round sin sinh
    sqrt std strlen tan tanh time
"""

#: words that are not allowed as a model's name: its kernel is a Verilog module, and the network inside it a C++ function
KEYWORDS = frozenset(_VERILOG.split()) | frozenset(_CPP.split())

#: characters kept of a name, so that an identifier with a prefix and suffix is still a legal file name
_MAX_LENGTH = 80


class Namespace:
    """The identifiers of one scope. No two are equal or differ only in case, which some file systems ignore.

    Args:
        taken: identifiers that the scope already has.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def identifier(self, name: str, forms: Sequence[str] = ("{}",)) -> str:
        """Return an unused identifier that resembles `name`, with a number at its end if the plain one is taken.

        All of them are unused, and are taken from now on.

        Args:
            forms: the names that the caller derives from the identifier, with "{}" in its place.
        """
        plain = cleaned(name)
        for number in count(1):
            identifier = plain if number == 1 else f"{plain}_{number}"
            given = {form.format(identifier).lower() for form in forms}
            if not given & self._taken and not given & KEYWORDS:
                self._taken |= given
                return identifier
        raise AssertionError("a count ended")


def cleaned(name: str) -> str:
    """Reduce a name to ASCII letters, digits and single underscores, with a letter first and no underscore at the end.

    Two names may give the same result.
    """
    words = re.sub(r"[^A-Za-z0-9]+", "_", name[:_MAX_LENGTH]).strip("_")
    return words if words[:1].isalpha() else f"n_{words}".rstrip("_")


_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*_?")


def is_identifier(name: str) -> bool:
    """Return whether `name` is legal for a C++ function and a Verilog module. "__" is not: C++ reserves it."""
    return _IDENTIFIER.fullmatch(name) is not None
