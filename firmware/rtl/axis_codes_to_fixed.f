../../hls/rtl/axis/axis_fifo.sv
../../hls/rtl/axis/axis_free_running.sv
axis_codes_to_fixed.sv
