axis_row_pack.sv
