../../hls/rtl/axis/ap_fixed_pkg.sv
../../hls/rtl/axis/fixed_cast.sv
fixed_to_float.sv
axis_fixed_to_wire.sv
