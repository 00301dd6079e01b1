registers.svh
../../hls/rtl/axis_fifo.sv
kernel_control.sv
