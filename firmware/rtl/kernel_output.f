../../hls/rtl/axis_skid.sv
fixed_to_fp32.sv
axis_fixed_to_float.sv
axis_row_pack.sv
kernel_output.sv
