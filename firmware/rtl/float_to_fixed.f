../../hls/rtl/axis/ap_fixed_pkg.sv
float_to_fixed.sv
