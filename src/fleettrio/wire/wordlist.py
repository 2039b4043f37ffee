"""256 words to read a key's fingerprint out with: one byte a word. It never changes, or old notes would not match."""

from __future__ import annotations

__all__ = ("WORDS",)

_TEXT = """
acid acorn actor adult alarm album alley amber angle ankle anvil apple apron arena armor arrow aspen atlas attic
award axis bacon badge bagel baker bamboo banjo barn basil basin beach beard beaver bench berry birch bishop
bison blade blanket bloom board bonus border bottle boulder bread brick bridge bronze broom brush bucket buffalo
bugle butter cabin cactus camel canal candle canoe canvas carbon cargo carpet castle cattle cedar cello chalk
cherry chess chimney cider cinema circus citrus clay clock cloud clover cobra coffee comet copper coral cotton
cougar cradle crayon cricket crown crystal curtain cymbal dagger daisy dancer delta denim desert diamond dolphin
donkey dragon drum eagle easel echo elbow elm ember engine fabric falcon feather fennel ferry fiddle filter flag
flamingo flute forest fossil fountain fox galaxy garden garlic gecko ginger giraffe glacier globe glove goat
gondola gravel guitar hammer harbor harvest hazel helmet heron hippo honey hornet igloo indigo island ivory
jacket jaguar jasmine jelly jewel jungle kayak kettle kiwi koala ladder lagoon lantern lemon leopard lilac
lizard llama lobster locket lotus magnet mango maple marble meadow melon mirror mitten monkey mosaic muffin
mustard napkin nectar needle noodle nutmeg oasis ocean olive onion opal orbit orchid otter oyster paddle panda
papaya parrot pebble pepper piano pigeon pilot planet plum pocket poppy potato pumpkin puzzle quartz quilt
rabbit raccoon radish raven ribbon river robin rocket saddle saffron salmon sandal saturn scarf shadow shark
sheep silver sketch spider spruce squid statue stork tablet temple thistle tiger tulip tunnel turtle velvet
violin walnut whale willow zebra
"""

WORDS = tuple(_TEXT.split())
