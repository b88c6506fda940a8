"""ISO 639 language codes: which are known, and suggestions for those that are not."""

from __future__ import annotations

import re
from typing import Final

from dragoman.errors import SearchError
from dragoman.values import close_matches

# ISO 639-1, and the ISO 639-2 codes of the same languages: the native one, then the one from the English name
TWO_LETTER_CODES: Final = (
    "aa=aar ab=abk ae=ave af=afr ak=aka am=amh an=arg ar=ara as=asm av=ava ay=aym az=aze ba=bak be=bel bg=bul bh=bih "
    "bi=bis bm=bam bn=ben bo=bod=tib br=bre bs=bos ca=cat ce=che ch=cha co=cos cr=cre cs=ces=cze cu=chu cv=chv "
    "cy=cym=wel da=dan de=deu=ger dv=div dz=dzo ee=ewe el=ell=gre en=eng eo=epo es=spa et=est eu=eus=baq fa=fas=per "
    "ff=ful fi=fin fj=fij fo=fao fr=fra=fre fy=fry ga=gle gd=gla gl=glg gn=grn gu=guj gv=glv ha=hau he=heb hi=hin "
    "ho=hmo hr=hrv ht=hat hu=hun hy=hye=arm hz=her ia=ina id=ind ie=ile ig=ibo ii=iii ik=ipk io=ido is=isl=ice it=ita "
    "iu=iku ja=jpn jv=jav ka=kat=geo kg=kon ki=kik kj=kua kk=kaz kl=kal km=khm kn=kan ko=kor kr=kau ks=kas ku=kur "
    "kv=kom kw=cor ky=kir la=lat lb=ltz lg=lug li=lim ln=lin lo=lao lt=lit lu=lub lv=lav mg=mlg mh=mah mi=mri=mao "
    "mk=mkd=mac ml=mal mn=mon mr=mar ms=msa=may mt=mlt my=mya=bur na=nau nb=nob nd=nde ne=nep ng=ndo nl=nld=dut "
    "nn=nno no=nor nr=nbl nv=nav ny=nya oc=oci oj=oji om=orm or=ori os=oss pa=pan pi=pli pl=pol ps=pus pt=por qu=que "
    "rm=roh rn=run ro=ron=rum ru=rus rw=kin sa=san sc=srd sd=snd se=sme sg=sag si=sin sk=slk=slo sl=slv sm=smo sn=sna "
    "so=som sq=sqi=alb sr=srp ss=ssw st=sot su=sun sv=swe sw=swa ta=tam te=tel tg=tgk th=tha ti=tir tk=tuk tl=tgl "
    "tn=tsn to=ton tr=tur ts=tso tt=tat tw=twi ty=tah ug=uig uk=ukr ur=urd uz=uzb ve=ven vi=vie vo=vol wa=wln wo=wol "
    "xh=xho yi=yid yo=yor za=zha zh=zho=chi zu=zul sh=hbs"
)
# ISO 639-2: languages and language families without a two-letter code
THREE_LETTER_CODES: Final = (
    "ace ach ada ady afa afh ain akk ale alg alt ang anp apa arc arn arp art arw ast ath aus awa bad bai bal ban bas "
    "bat bej bem ber bho bik bin bla bnt bra btk bua bug byn cad cai car cau ceb cel chb chg chk chm chn cho chp chr "
    "chy cmc cnr cop cpe cpf cpp crh crp csb cus dak dar day del den dgr din doi dra dsb dua dum dyu efi egy eka elx "
    "enm ewo fan fat fil fiu fon frm fro frr frs fur gaa gay gba gem gez gil gmh goh gon gor got grb grc gsw gwi hai "
    "haw hil him hit hmn hsb hup iba ijo ilo inc ine inh ira iro jbo jpr jrb kaa kab kac kam kar kaw kbd kha khi kho "
    "kmb kok kos kpe krc krl kro kru kum kut lad lah lam lez lol loz lua lui lun luo lus mad mag mai mak man map mas "
    "mdf mdr men mga mic min mkh mnc mni mno moh mos mun mus mwl mwr myn myv nah nai nap nds new nia nic niu nog non "
    "nqo nso nub nwc nym nyn nyo nzi osa ota oto paa pag pal pam pap pau peo phi phn pon pra pro raj rap rar roa rom "
    "rup sad sah sai sal sam sas sat scn sco sel sem sga sgn shn sid sio sit sla sma smi smj smn sms snk sog son srn "
    "srr ssa suk sus sux syc syr tai tem ter tet tig tiv tkl tlh tli tmh tog tpi tsi tum tup tut tvl tyv udm uga umb "
    "vai vot wak wal war was wen xal yao yap ypk zap zbl zen zgh znd zun zza"
)
# ISO 639-3: further codes for which sentencex has rules
SENTENCEX_ONLY: Final = (
    "aae acm aeb als apc arq ary arz atj avk bar bci blk bpy bxr egl eml ext fit frc frp gcf gcr gld guc hke hrx hyw "
    "jut kbp kea kjh kjp koi ksh ksw lbe lij lld lmo mhr mnw mrj olo pcd pdc pdt pfl pms pnt qug rgn rue rut sdc ses "
    "shy sjd sli sro stq sty szl tcy vec vls vmf vmw wls"
)
# ISO 639-3: the main variety of a language with a two-letter code, or one whose sentences end the same way
MACROLANGUAGE_MEMBERS: Final = (
    "ar=arb az=azj et=ekk fa=pes=prs lv=lvs mg=plt mn=khk ms=zsm ne=npi or=ory ps=pbt sw=swh uz=uzn "
    "zh=cmn=yue=wuu=nan=hak=hsn=gan=lzh ku=ckb=kmr om=gaz yi=ydd"
)
# common mistakes: a country code, a replaced code, or a name that begins differently
COMMON_MISTAKES: Final = (
    "en=us=gb=au de=at zh=cn=hk ja=jp=japanese ko=kp cs=cz da=dk el=gr uk=ua vi=vn id=in he=iw=il yi=ji es=mx=sp "
    "fa=ir sq=al sl=slovenian kk=kz be=by bn=bd ar=eg ro=romanian hr=croatian sr=serbian lv=latvian eu=basque "
    "ms=malay mt=maltese ga=irish gl=galician"
)


def parse_aliases(words: str) -> dict[str, str]:
    """A map from every other code of a language to its first, as in `de=deu=ger`."""
    return {other: first for first, *others in (word.split("=") for word in words.split()) for other in others}


TO_TWO_LETTERS: Final = parse_aliases(TWO_LETTER_CODES) | parse_aliases(MACROLANGUAGE_MEMBERS)
KNOWN_CODES: Final = frozenset(
    [*TO_TWO_LETTERS, *TO_TWO_LETTERS.values(), *THREE_LETTER_CODES.split(), *SENTENCEX_ONLY.split()]
)


def normalize_language(code: str) -> str:
    """A language code as sentencex expects it: two letters if possible, without anything after a hyphen.

    sentencex itself accepts unknown codes silently."""
    found = re.fullmatch(r"([a-z]{2,3})([-_][a-z0-9]+)*", code.lower()) if isinstance(code, str) else None
    if found is None or found[1] not in KNOWN_CODES:
        raise SearchError(
            f"language={code!r} is not a known language code{suggest_language(code)}; use two letters, such as "
            "'de' or 'zh' (ISO 639-1), or three letters if the language has no two-letter code (ISO 639-2); for an "
            "unknown language, use one whose sentences end the same way",
            code="unknown_language",
        )
    return TO_TWO_LETTERS.get(found[1], found[1])


def suggest_language(word: object) -> str:
    """` (did you mean ...?)` for a country code, a language name or a typo; or nothing."""
    if not isinstance(word, str):
        return ""
    start = re.split("[-_]", word.lower())[0]
    countries = parse_aliases(COMMON_MISTAKES)
    if start in countries:
        near = [countries[start]]
    elif len(start) > 3:
        near = [start[:3]]  # names and three-letter codes begin the same way: german, ger; deutsch, deu
    else:
        alike = [code for code in sorted(KNOWN_CODES) if len(code) == len(start) and code[0] == start[:1]]
        near = close_matches(start, alike, 3)
    found = list(dict.fromkeys(TO_TWO_LETTERS.get(code, code) for code in near if code in KNOWN_CODES))
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""
