../axis/axis_skid.sv
rf_fork.sv
