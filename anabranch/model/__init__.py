"""Values that every floor shares: standard library only, frozen, slotted, picklable. No behaviour with effects."""
