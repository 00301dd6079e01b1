ap_fixed_pkg.sv
fixed_cast.sv
