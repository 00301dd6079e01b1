round_robin.sv
