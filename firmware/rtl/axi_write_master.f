../../hls/rtl/axis/axis_fifo.sv
axi_burst_split.sv
axi_write_master.sv
