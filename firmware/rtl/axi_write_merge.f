../../hls/rtl/axis/axis_fifo.sv
round_robin.sv
axi_write_merge.sv
