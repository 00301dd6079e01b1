kernel_weights.sv
