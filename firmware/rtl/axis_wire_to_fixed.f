../../hls/rtl/axis/ap_fixed_pkg.sv
../../hls/rtl/axis/fixed_cast.sv
float_to_fixed.sv
../../hls/rtl/axis/axis_fifo.sv
../../hls/rtl/axis/axis_free_running.sv
axis_wire_to_fixed.sv
