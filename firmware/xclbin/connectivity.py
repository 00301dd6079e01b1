# SPDX-License-Identifier: Apache-2.0
"""The memory banks and the die of each compute unit.

v++ reads the assignment from its configuration file (toolchains/vitis/config.py), and assemble.py writes the same assignment
into the containers of the emulated card.
Compute units that cannot fit are refused here, before hours of place and route. The units of all kernels of an xclbin are
assigned together, by one plan.

Sources: UG1702 (`platforminfo` on Max Masters), PG276 (the ports of HBM), FINN's platform tables (planning
limits, size of the memory controllers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from hypersonic.firmware.errors import LinkError, ResourceError
from hypersonic.firmware.kernel.vitis_xml import KernelDescription, describe_kernel
from hypersonic.firmware.platform import Platform
from hypersonic.hls.resources import KINDS, LABELS, NOTHING, Amounts, amount_text

#: HBM channels assigned to one port, when there are enough
PORT_CHANNELS = 4

#: AXI masters that the shell's memory subsystem takes for one bank: platforminfo's "Max Masters" for a DDR bank (UG1702), and
#: the one AXI port of an HBM channel (PG276)
MAX_MASTERS = {"DDR4": 15, "HBM": 1}

#: planning limits in per cent of a die; fuller designs tend to miss timing
LIMITS_PERCENT = Amounts(lut=70, ff=50, dsp=80, bram36=80, uram=80)

#: wires of units over the boundary between two dies, half of the fewest that are there: Vivado prints their number for a part
#: (get_property NUM_TOP_SLLS [get_slrs SLR0], UG949), which no guide lists. Public designs give 17,280 or 23,040 for these
#: cards' devices, and a Vivado report 23,040 for an XCVU19P; the shell's interconnect needs some too
BOUNDARY_WIRES = 17_280 // 2

#: resources of the memory controller that the tools add to a die when the memory attached to it is used
CONTROLLERS = {
    "DDR4": Amounts(lut=33_256, ff=44_889, dsp=3, bram36=99.5),
    "HBM": Amounts(lut=10_718, ff=21_793, bram36=4),
}

#: assumed of the interconnect that v++ puts between a unit and its memory: a SmartConnect, which takes 5 to 15 thousand LUTs a
#: unit in linked designs. What the shell takes is not in a platform's dies (UG1120), and not in the total of AWS F2.
INTERCONNECT = Amounts(lut=10_000)

_ADVICE = "ask for fewer compute units, quantise or prune the model, or take a larger card"
_ADVICE_TOGETHER = "ask for fewer units or models, quantise or prune the models, or take a larger card"


@dataclass(frozen=True)
class UnitPlacement:
    """The place of one compute unit.

    Attributes:
        slr: its die; None for a unit that is too large for one die, and is on several.
        ports: each m_axi port with the banks it reaches, as indices into Platform.memory.
        registered: its kernel has, or is to have, registers at its AXI ports (kernel/slices.py), because a unit of that kernel
            is not on the die of all its banks.
    """

    unit: str
    slr: int | None
    ports: tuple[tuple[str, range], ...]
    registered: bool = False


def check_compute_units(platform: Platform, compute_units: int) -> None:
    """Raises LinkError for a number of compute units that the platform's shell does not take."""
    if not 1 <= compute_units <= platform.compute_units:
        raise LinkError(f"compute units: got {compute_units}, expected 1 to {platform.compute_units} on {platform.name}")


def assign_banks(platform: Platform, compute_units: int, ports: int, *, shared: bool = False) -> tuple[tuple[range, ...], ...]:
    """The banks that each port of each unit reaches, as indices into platform.memory: result[unit][port].

    With DIMMs, all ports of unit k are on DIMM k. With HBM, each port has up to PORT_CHANNELS channels of its own.

    Args:
        shared: more units than DIMMs take the DIMMs in turn, as many as the memory subsystem has ports for.

    Raises:
        LinkError: For more units than that, or than the platform has memories for; and for a platform without memory.
    """
    _check_banks(platform, compute_units, ports, shared)
    banks = _banks(platform)
    if not _is_hbm(platform):
        return tuple((range(k % banks, k % banks + 1),) * ports for k in range(compute_units))
    width = min(PORT_CHANNELS, banks // (compute_units * ports))
    ranges = [range(number * width, (number + 1) * width) for number in range(compute_units * ports)]
    return tuple(tuple(ranges[k * ports : (k + 1) * ports]) for k in range(compute_units))


def _banks(platform: Platform) -> int:
    """The number of banks that kernels may use: those of the card's first kind of memory, which is HBM where there is HBM."""
    if not platform.memory:
        raise LinkError(f"platform {platform.name} has no memory to connect; choose another one")
    return sum(bank.kind == platform.memory[0].kind for bank in platform.memory)


def _is_hbm(platform: Platform) -> bool:
    return platform.memory[0].kind == "HBM"


def place_units(platform: Platform, kernel: KernelDescription, unit: Amounts | None = None) -> tuple[UnitPlacement, ...]:
    """The place of every instance of the only kernel.

    Args:
        unit: the resources of one instance; see place_kernels.
    """
    return place_kernels(platform, [kernel], [unit or NOTHING])


def place_kernels(
    platform: Platform, kernels: Sequence[KernelDescription], units: Sequence[Amounts] = ()
) -> tuple[UnitPlacement, ...]:
    """The place of every instance of all kernels, in their order.

    A unit is placed on the die of its DIMM or on the nearest one with room, the largest units first; on HBM cards on the die
    with the fewest units. A unit that is too large for any one die is assigned none (Place.slr is None) if all dies together
    hold it. Units of several kernels share the DIMMs where there are more units.

    Args:
        units: the resources of one instance of each kernel (estimate/kernel.py), without its interconnect; without them, only
            the memories are checked.

    Raises:
        LinkError: For two kernels with one name, and for more units than the platform has memories for.
        ResourceError: For units that do not fit the dies.
    """
    _check_names(kernels)
    masters = _masters(kernels[0])  # all kernels of this project have the same ports
    amounts = list(units) or [NOTHING] * len(kernels)
    names = [unit.name for kernel in kernels for unit in kernel.instances]
    try:
        assigned = assign_banks(platform, len(names), len(masters), shared=len(kernels) > 1)
        each = list(chain.from_iterable([unit] * len(one.instances) for one, unit in zip(kernels, amounts, strict=True)))
        whole = [unit + interconnect(platform) if unit != NOTHING else unit for unit in each]
        dies = _assign_dies(platform, names, [banks[0].start for banks in assigned], whole)
    except (LinkError, ResourceError) as error:
        raise _misfit(platform, kernels, error) from error
    places = (
        UnitPlacement(name, die, tuple(zip(masters, banks, strict=True)))
        for name, die, banks in zip(names, dies, assigned, strict=True)
    )
    each_kernel = ((kernel, list(islice(places, len(kernel.instances)))) for kernel in kernels)
    return tuple(chain.from_iterable(_registered(platform, kernel, own) for kernel, own in each_kernel))


def _registered(platform: Platform, kernel: KernelDescription, places: Sequence[UnitPlacement]) -> list[UnitPlacement]:
    """The places of a kernel's units, with `registered`."""
    registered = kernel.port_registers or any(_crosses(platform, place) for place in places)
    return [replace(place, registered=registered) for place in places]


def _crosses(platform: Platform, place: UnitPlacement) -> bool:
    """Whether the unit is on another die than one of its banks, or on several. The host's memory is on none."""
    dies = {platform.memory[bank].slr for _, banks in place.ports for bank in banks}
    return not platform.host_memory and dies != {place.slr}


def _misfit(platform: Platform, kernels: Sequence[KernelDescription], error: LinkError | ResourceError) -> Exception:
    """The error with what to do, and with the names of several kernels."""
    if len(kernels) > 1:
        listed = ", ".join(f"{kernel.name} x {len(kernel.instances)}" for kernel in kernels)
        return type(error)(f"the kernels {listed} do not fit {platform.name} together: {error}; {_ADVICE_TOGETHER}")
    return ResourceError(f"{error}; {_ADVICE}") if isinstance(error, ResourceError) else error


def _check_names(kernels: Sequence[KernelDescription]) -> None:
    names = [kernel.name for kernel in kernels]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise LinkError(
            f"kernels are {', '.join(names)}, expected each name once: {', '.join(twice)} is there twice; give a model another "
            "name"
        )


def shared_banks(platform: Platform, places: Sequence[UnitPlacement]) -> list[str]:
    """A line for each memory bank that several units share, with their names. There is none where the memory is the host's."""
    units: dict[int, list[str]] = {}
    for place in () if platform.host_memory else places:
        for bank in sorted({bank for _, banks in place.ports for bank in banks}):
            units.setdefault(bank, []).append(place.unit)
    return [
        f"{platform.memory[bank].sp} is shared by {', '.join(names)}: they share its bandwidth"
        for bank, names in sorted(units.items())
        if len(names) > 1
    ]


def check_units(platform: Platform, compute_units: int) -> None:
    """Raises LinkError for more compute units than the platform has memories for. All kernels of this project have the same
    ports."""
    _check_banks(platform, compute_units, len(_masters(describe_kernel("kernel", ()))))


def most_units(platform: Platform) -> int:
    """The largest number of compute units that the platform has memories for. Raises LinkError without memory."""
    ports = len(_masters(describe_kernel("kernel", ())))
    return min(platform.compute_units, _banks(platform) // (ports if _is_hbm(platform) else 1))


def controllers(platform: Platform) -> tuple[Amounts, ...]:
    """The resources that the memory controllers take of each die when all memories are used. Raises LinkError without any."""
    return tuple(_controllers(platform, list(range(_banks(platform)))))


def interconnect(platform: Platform) -> Amounts:
    """The resources that the tools add for each unit. A card without v++ has its own module for it (Platform.shell_module)."""
    return NOTHING if platform.shell_module else INTERCONNECT


def _masters(kernel: KernelDescription) -> tuple[str, ...]:
    return tuple(port.name for port in kernel.ports if port.mode == "master")


def _check_banks(platform: Platform, units: int, ports: int, shared: bool = False) -> None:
    check_compute_units(platform, units)
    banks, hbm = _banks(platform), _is_hbm(platform)
    if shared:
        _check_masters(platform, units, ports, banks)
        return
    most = banks // ports if hbm else banks
    if units > most:
        each = f"{ports} of {banks} HBM channels each" if hbm else f"one of {banks} DDR banks each"
        raise LinkError(
            f"{units} compute units do not fit {platform.name}: got {units}, expected at most {most} ({each}); more "
            "would share a memory whose bandwidth one unit can use up: ask for fewer"
        )


def _check_masters(platform: Platform, units: int, ports: int, banks: int) -> None:
    """Raises LinkError for more ports than the memory subsystem takes. A unit's ports are on one DIMM, or on HBM channels."""
    kind = platform.memory[0].kind
    masters = MAX_MASTERS[kind]
    most = banks * masters // ports if _is_hbm(platform) else banks * (masters // ports)
    if units > most:
        raise LinkError(
            f"{units} compute units have {units * ports} AXI masters, and the memory subsystem of {platform.name} takes "
            f"{masters} for each of {banks} {kind} banks: got {units} units, expected at most {most}"
        )


def budgets(platform: Platform) -> tuple[Amounts, ...]:
    """The resources of each die that a plan may use: LIMITS_PERCENT of them."""
    return tuple(_budget(die) for die in platform.slrs)


def _budget(die: Amounts) -> Amounts:
    return Amounts(**{name: getattr(die, name) * getattr(LIMITS_PERCENT, name) // 100 for name in KINDS})


def _assign_dies(
    platform: Platform, names: Sequence[str], banks: Sequence[int], units: Sequence[Amounts]
) -> Sequence[int | None]:
    """The die of each unit, None for units that only several dies hold.

    The largest units are placed first.

    Args:
        names, banks, units: of each unit, its name, its first bank and its resources.
    """
    allowed, used, held = budgets(platform), _controllers(platform, banks), [0] * len(platform.slrs)
    spread = [all((one + unit).exceeding(die) for one, die in zip(used, allowed, strict=True)) for unit in units]
    if any(spread):
        _check_together(platform, names, units, used)
    dies: list[int | None] = [None] * len(units)
    whole = sum(platform.slrs, NOTHING)
    for number in sorted(range(len(units)), key=lambda number: -_share(units[number], whole)):
        if spread[number]:
            continue
        bank, unit = banks[number], units[number]
        distance = [abs(die - platform.memory[bank].slr) for die in range(len(allowed))]
        load = held if _is_hbm(platform) else [0] * len(held)
        free = [die for die in range(len(allowed)) if (used[die] + unit).fits(allowed[die])]
        if not free:
            raise ResourceError(_no_room(platform, names[number], unit, used))
        chosen = min((load[die], distance[die], die) for die in free)[2]
        dies[number] = chosen
        used[chosen], held[chosen] = used[chosen] + unit, held[chosen] + 1
    return dies


def _share(unit: Amounts, whole: Amounts) -> float:
    """The largest share that a unit takes of any of the card's resources."""
    shares: list[float] = [getattr(unit, name) / max(1, getattr(whole, name)) for name in KINDS]
    return max(shares)


def _check_together(platform: Platform, names: Sequence[str], units: Sequence[Amounts], used: list[Amounts]) -> None:
    """Refuse units that all dies together do not hold.

    Args:
        used: resources of each die already in use.

    Raises:
        ResourceError: When all dies together do not hold the units.
    """
    whole, taken, asked = sum(platform.slrs, NOTHING), sum(used, NOTHING), sum(units, NOTHING)
    if short := (asked + taken).exceeding(_budget(whole)):
        lacking = "; ".join(_lack(name, whole, asked, taken) for name in short)
        who = f"compute unit {names[0]} does not" if len(names) == 1 else f"compute units {names[0]} to {names[-1]} do not"
        raise ResourceError(f"{who} fit {platform.name}: in all SLRs together {lacking}")


def _controllers(platform: Platform, banks: Sequence[int]) -> list[Amounts]:
    """The resources that the controllers of the used memories take from each die; none where the memory is the host's."""
    used = [NOTHING] * len(platform.slrs)
    if platform.host_memory:
        return used
    for bank in {0} if _is_hbm(platform) else set(banks):
        memory = platform.memory[bank]
        used[memory.slr] += CONTROLLERS[memory.kind]
    return used


def _no_room(platform: Platform, unit_name: str, unit: Amounts, used: list[Amounts]) -> str:
    """The error text for a unit that fits no die, with the figures of the die that is nearest to holding it."""
    dies = [((used[die] + unit).exceeding(budget), die) for die, budget in enumerate(budgets(platform))]
    short, die = min(dies, key=lambda pair: (len(pair[0]), -_free(pair[0][0], platform.slrs[pair[1]], used[pair[1]])))
    lacking = "; ".join(_lack(name, platform.slrs[die], unit, used[die]) for name in short)
    return f"compute unit {unit_name} does not fit {platform.name}: in SLR{die} {lacking}"


def _free(name: str, die: Amounts, used: Amounts) -> float:
    free: float = getattr(die, name) * getattr(LIMITS_PERCENT, name) // 100 - getattr(used, name)
    return max(0, free)


def _lack(name: str, die: Amounts, unit: Amounts, used: Amounts) -> str:
    in_use, amount, room = (amount_text(value) for value in (getattr(used, name), getattr(unit, name), _free(name, die, used)))
    allowed = f"{getattr(LIMITS_PERCENT, name)} % of {amount_text(getattr(die, name))} less {in_use} in use"
    return f"{LABELS[name]}: got {amount}, expected at most {room} ({allowed})"


def bank_range(platform: Platform, banks: range) -> str:
    """The banks as v++'s sp= takes them: DDR[1], HBM[3], or HBM[0:3] for several."""
    first = platform.memory[banks.start].sp
    return first if len(banks) == 1 else f"{first[:-1]}:{platform.memory[banks[-1]].sp.split('[')[1]}"


def describe_places(platform: Platform, places: Sequence[UnitPlacement]) -> list[str]:
    """One line for each unit, with its die and the memory of each port. Where the memory is the host's, the tools choose the
    die."""
    if platform.host_memory:
        return [f"{place.unit}: rows in host memory" for place in places]
    return [
        f"{place.unit}: {_die(place)}, "
        + ", ".join(f"{port} on {bank_range(platform, banks)}" for port, banks in place.ports)
        + (", registered AXI ports" if place.registered else "")
        for place in places
    ]


def _die(place: UnitPlacement) -> str:
    return f"SLR{place.slr}" if place.slr is not None else "too large for one SLR: placed over several"
