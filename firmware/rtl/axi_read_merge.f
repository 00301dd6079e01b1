round_robin.sv
axi_burst_split.sv
axi_read_merge.sv
