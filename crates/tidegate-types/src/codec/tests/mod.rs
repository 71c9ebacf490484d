mod changed_types;
mod formats;
mod hostile;
