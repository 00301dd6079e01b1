../axis/ap_fixed_pkg.sv
../axis/fixed_cast.sv
rf_mean.sv
