../axis/axis_skid.sv
rf_load.sv
