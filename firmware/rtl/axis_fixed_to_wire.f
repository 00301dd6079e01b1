../../hls/rtl/axis/ap_fixed_pkg.sv
../../hls/rtl/axis/fixed_cast.sv
fixed_to_float.sv
../../hls/rtl/axis/axis_fifo.sv
../../hls/rtl/axis/axis_free_running.sv
axis_fixed_to_wire.sv
