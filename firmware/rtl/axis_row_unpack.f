../../hls/rtl/axis/axis_fifo.sv
../../hls/rtl/axis/axis_free_running.sv
tensor_turns.sv
axis_tensor_unpack.sv
axis_row_unpack.sv
