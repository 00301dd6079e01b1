fixed_round.sv
fixed_to_fixed.sv
