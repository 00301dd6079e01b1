fixed_round.sv
float_to_fixed.sv
