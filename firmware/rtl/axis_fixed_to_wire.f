fixed_round.sv
fixed_to_fixed.sv
fixed_to_float.sv
axis_fixed_to_wire.sv
