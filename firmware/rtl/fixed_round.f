fixed_round.sv
