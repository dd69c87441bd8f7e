#![doc = "room"]
