"""English names of languages, by their codes."""

from __future__ import annotations

import re
from typing import Final

from dragoman.text.languages.codes import TO_TWO_LETTERS

# ISO 639-1, and other languages that translation models are often trained for
NAMES: Final = (
    "aa=Afar, ab=Abkhazian, ae=Avestan, af=Afrikaans, ak=Akan, am=Amharic, an=Aragonese, ar=Arabic, as=Assamese, "
    "av=Avaric, ay=Aymara, az=Azerbaijani, ba=Bashkir, be=Belarusian, bg=Bulgarian, bh=Bihari, bi=Bislama, "
    "bm=Bambara, bn=Bengali, bo=Tibetan, br=Breton, bs=Bosnian, ca=Catalan, ce=Chechen, ch=Chamorro, co=Corsican, "
    "cr=Cree, cs=Czech, cu=Church Slavic, cv=Chuvash, cy=Welsh, da=Danish, de=German, dv=Divehi, dz=Dzongkha, ee=Ewe, "
    "el=Greek, en=English, eo=Esperanto, es=Spanish, et=Estonian, eu=Basque, fa=Persian, ff=Fula, fi=Finnish, "
    "fj=Fijian, fo=Faroese, fr=French, fy=Western Frisian, ga=Irish, gd=Scottish Gaelic, gl=Galician, gn=Guarani, "
    "gu=Gujarati, gv=Manx, ha=Hausa, he=Hebrew, hi=Hindi, ho=Hiri Motu, hr=Croatian, ht=Haitian Creole, hu=Hungarian, "
    "hy=Armenian, hz=Herero, ia=Interlingua, id=Indonesian, ie=Interlingue, ig=Igbo, ii=Sichuan Yi, ik=Inupiaq, "
    "io=Ido, is=Icelandic, it=Italian, iu=Inuktitut, ja=Japanese, jv=Javanese, ka=Georgian, kg=Kongo, ki=Kikuyu, "
    "kj=Kuanyama, kk=Kazakh, kl=Kalaallisut, km=Khmer, kn=Kannada, ko=Korean, kr=Kanuri, ks=Kashmiri, ku=Kurdish, "
    "kv=Komi, kw=Cornish, ky=Kyrgyz, la=Latin, lb=Luxembourgish, lg=Ganda, li=Limburgish, ln=Lingala, lo=Lao, "
    "lt=Lithuanian, lu=Luba-Katanga, lv=Latvian, mg=Malagasy, mh=Marshallese, mi=Māori, mk=Macedonian, ml=Malayalam, "
    "mn=Mongolian, mr=Marathi, ms=Malay, mt=Maltese, my=Burmese, na=Nauru, nb=Norwegian Bokmål, nd=North Ndebele, "
    "ne=Nepali, ng=Ndonga, nl=Dutch, nn=Norwegian Nynorsk, no=Norwegian, nr=South Ndebele, nv=Navajo, ny=Nyanja, "
    "oc=Occitan, oj=Ojibwa, om=Oromo, or=Odia, os=Ossetic, pa=Punjabi, pi=Pali, pl=Polish, ps=Pashto, pt=Portuguese, "
    "qu=Quechua, rm=Romansh, rn=Rundi, ro=Romanian, ru=Russian, rw=Kinyarwanda, sa=Sanskrit, sc=Sardinian, sd=Sindhi, "
    "se=Northern Sami, sg=Sango, sh=Serbo-Croatian, si=Sinhala, sk=Slovak, sl=Slovenian, sm=Samoan, sn=Shona, "
    "so=Somali, sq=Albanian, sr=Serbian, ss=Swati, st=Southern Sotho, su=Sundanese, sv=Swedish, sw=Swahili, ta=Tamil, "
    "te=Telugu, tg=Tajik, th=Thai, ti=Tigrinya, tk=Turkmen, tl=Tagalog, tn=Tswana, to=Tongan, tr=Turkish, ts=Tsonga, "
    "tt=Tatar, tw=Twi, ty=Tahitian, ug=Uyghur, uk=Ukrainian, ur=Urdu, uz=Uzbek, ve=Venda, vi=Vietnamese, vo=Volapük, "
    "wa=Walloon, wo=Wolof, xh=Xhosa, yi=Yiddish, yo=Yoruba, za=Zhuang, zh=Chinese, zu=Zulu, ace=Acehnese, "
    "arn=Mapuche, ary=Moroccan Arabic, arz=Egyptian Arabic, ast=Asturian, awa=Awadhi, bal=Baluchi, ban=Balinese, "
    "bar=Bavarian, bem=Bemba, bho=Bhojpuri, bug=Buginese, ceb=Cebuano, chr=Cherokee, crh=Crimean Tatar, "
    "csb=Kashubian, dsb=Lower Sorbian, dyu=Dyula, fil=Filipino, fon=Fon, frp=Arpitan, frr=Northern Frisian, "
    "fur=Friulian, gsw=Swiss German, haw=Hawaiian, hil=Hiligaynon, hmn=Hmong, hsb=Upper Sorbian, ilo=Iloko, "
    "kab=Kabyle, kbd=Kabardian, kha=Khasi, krc=Karachay-Balkar, kum=Kumyk, lad=Ladino, lij=Ligurian, lmo=Lombard, "
    "lua=Luba-Lulua, luo=Luo, lus=Mizo, mad=Madurese, mag=Magahi, mai=Maithili, min=Minangkabau, mni=Manipuri, "
    "mos=Mossi, mwl=Mirandese, nap=Neapolitan, nds=Low German, nso=Northern Sotho, pam=Pampanga, pap=Papiamento, "
    "pcd=Picard, pms=Piedmontese, rom=Romany, rup=Aromanian, sah=Yakut, sat=Santali, scn=Sicilian, sco=Scots, "
    "shn=Shan, srn=Sranan Tongo, stq=Saterland Frisian, szl=Silesian, tcy=Tulu, tet=Tetum, tlh=Klingon, tpi=Tok "
    "Pisin, tum=Tumbuka, tyv=Tuvinian, udm=Udmurt, umb=Umbundu, vec=Venetian, vls=West Flemish, war=Waray, zza=Zaza"
)
SCRIPTS: Final = "Arab=Arabic, Cyrl=Cyrillic, Deva=Devanagari, Hans=Simplified, Hant=Traditional, Latn=Latin"


def parse_names(words: str) -> dict[str, str]:
    """A map from each code to its name, as in `de=German, en=English`."""
    return dict(word.split("=") for word in words.split(", "))


ENGLISH_NAMES: Final = parse_names(NAMES)
SCRIPT_NAMES: Final = parse_names(SCRIPTS)


def language_name(code: str) -> str:
    """The English name of a language, as in German, Chinese (Simplified) or Portuguese (BR); the code if unknown."""
    language, *subtags = re.split("[-_]", code)
    name = ENGLISH_NAMES.get(TO_TWO_LETTERS.get(language.lower(), language.lower()))
    if name is None:
        return code
    details = ", ".join(SCRIPT_NAMES.get(subtag.title(), subtag) for subtag in subtags)
    return f"{name} ({details})" if details else name
