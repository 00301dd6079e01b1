axis_broadcast.sv
