axis_skid.sv
