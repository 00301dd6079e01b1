fixed_to_fp32.sv
