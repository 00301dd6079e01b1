../../hls/rtl/axis_skid.sv
axis_row_unpack.sv
fixed_round.sv
fixed_to_fixed.sv
float_to_fixed.sv
axis_wire_to_fixed.sv
kernel_input.sv
