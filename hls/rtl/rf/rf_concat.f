../axis/axis_skid.sv
rf_concat.sv
