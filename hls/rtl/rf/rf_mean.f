rf_cast.sv
rf_mean.sv
