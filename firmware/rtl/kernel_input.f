../../hls/rtl/axis_skid.sv
axis_row_unpack.sv
fp32_to_fixed.sv
axis_float_to_fixed.sv
kernel_input.sv
