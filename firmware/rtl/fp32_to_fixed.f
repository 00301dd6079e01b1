fp32_to_fixed.sv
