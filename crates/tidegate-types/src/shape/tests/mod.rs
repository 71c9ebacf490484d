mod differences;
mod generated;
mod refused;
mod traced;
