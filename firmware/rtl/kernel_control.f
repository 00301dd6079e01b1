registers.svh
../../hls/rtl/axis/axis_fifo.sv
kernel_control.sv
