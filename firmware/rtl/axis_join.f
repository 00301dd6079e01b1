axis_join.sv
