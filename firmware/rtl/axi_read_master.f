../../hls/rtl/axis/axis_fifo.sv
axi_burst_split.sv
axi_read_master.sv
