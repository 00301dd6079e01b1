fixed_to_float.sv
