../../hls/rtl/axis/axis_fifo.sv
axis_broadcast.sv
kernel_runs.sv
